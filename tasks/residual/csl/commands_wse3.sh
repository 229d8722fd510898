#!/usr/bin/env bash
# Build and run on WSE-3: ./commands_wse3.sh [small|medium]

set -e

size="${1:-small}"
case "$size" in
  small) dims=9,4 params=width:2,height:2,LOCAL_OUT_SZ:3,LOCAL_IN_SZ:2 ;;
  medium) dims=11,5 params=width:4,height:3,LOCAL_OUT_SZ:90,LOCAL_IN_SZ:75 ;;
  *) echo "unknown size '$size'; known: small, medium" >&2 && exit 2 ;;
esac

cslc layout.csl --arch=wse3 --fabric-dims="$dims" --fabric-offsets=4,1 --params="$params" \
  --memcpy --channels=1 -o out
cs_python run.py --name out
