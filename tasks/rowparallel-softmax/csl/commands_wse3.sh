#!/usr/bin/env bash
# Build and run on WSE-3: ./commands_wse3.sh [small|four|medium]

set -e

size="${1:-small}"
case "$size" in
  small) dims=9,3 params=n_per_pe:128,width:2,height:1 ;;
  four) dims=11,3 params=n_per_pe:128,width:4,height:1 ;;
  medium) dims=12,3 params=n_per_pe:1201,width:5,height:1 ;;
  *) echo "unknown size '$size'; known: small, four, medium" >&2 && exit 2 ;;
esac

cslc layout.csl --arch=wse3 --fabric-dims="$dims" --fabric-offsets=4,1 --params="$params" \
  --memcpy --channels=1 -o out
cs_python run.py --name out
