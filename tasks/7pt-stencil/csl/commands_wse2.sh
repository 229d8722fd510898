#!/usr/bin/env bash
# Build and run on WSE-2: ./commands_wse2.sh [small|large|medium]

set -e

size="${1:-small}"
case "$size" in
  small) dims=12,7 params=width:5,height:5,MAX_ZDIM:5,BLOCK_SIZE:2,m:5,n:5,k:5 ;;
  large) dims=12,7 params=width:5,height:5,MAX_ZDIM:60,BLOCK_SIZE:2,m:5,n:5,k:60 ;;
  medium) dims=13,5 params=width:6,height:3,MAX_ZDIM:1003,BLOCK_SIZE:16,m:6,n:3,k:1003 ;;
  *) echo "unknown size '$size'; known: small, large, medium" >&2 && exit 2 ;;
esac

cslc layout.csl --arch=wse2 --fabric-dims="$dims" --fabric-offsets=4,1 --params="$params" \
  --memcpy --channels=1 -o out
cs_python run.py --name out
