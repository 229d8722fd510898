#!/usr/bin/env bash
# Build and run on WSE-3: ./commands_wse3.sh [small|medium]

set -e

size="${1:-small}"
case "$size" in
  small) dims=12,7 params=width:5,height:5,MAX_ZDIM:5,BLOCK_SIZE:2,m:5,n:5,k:5,max_ite:20 ;;
  medium) dims=10,5 params=width:3,height:3,MAX_ZDIM:398,BLOCK_SIZE:12,m:3,n:3,k:398,max_ite:5 ;;
  *) echo "unknown size '$size'; known: small, medium" >&2 && exit 2 ;;
esac

cslc layout.csl --arch=wse3 --fabric-dims="$dims" --fabric-offsets=4,1 --params="$params" \
  --memcpy --channels=1 -o out
cs_python run.py --name out
