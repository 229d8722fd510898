#!/usr/bin/env bash
# Build and run on WSE-2: ./commands_wse2.sh [small|medium]

set -e

size="${1:-small}"
case "$size" in
  small) dims=11,3 params=n_per_pe:128,width:4,height:1 ;;
  medium) dims=13,3 params=n_per_pe:3001,width:6,height:1 ;;
  *) echo "unknown size '$size'; known: small, medium" >&2 && exit 2 ;;
esac

cslc layout.csl --arch=wse2 --fabric-dims="$dims" --fabric-offsets=4,1 --params="$params" \
  --memcpy --channels=1 -o out
cs_python run.py --name out
