#!/usr/bin/env bash
# Build and run on WSE-2: ./commands_wse2.sh [small|medium]

set -e

size="${1:-small}"
case "$size" in
  small) dims=9,4 params=width:2,height:2,ax1:8,ax2:8,ax3:8 ;;
  medium) dims=9,4 params=width:2,height:2,ax1:12,ax2:19,ax3:22 ;;
  *) echo "unknown size '$size'; known: small, medium" >&2 && exit 2 ;;
esac

cslc layout.csl --arch=wse2 --fabric-dims="$dims" --fabric-offsets=4,1 --params="$params" \
  --memcpy --channels=1 -o out
cs_python run.py --name out
