#!/usr/bin/env bash
# Build and run on WSE-3: ./commands_wse3.sh [small|large|medium]

set -e

size="${1:-small}"
case "$size" in
  small) dims=9,4 params=width:2,height:2,Mt:4,Nt:4,iters:1 ;;
  large) dims=9,4 params=width:2,height:2,Mt:16,Nt:16,iters:1 ;;
  medium) dims=11,5 params=width:4,height:3,Mt:46,Nt:57,iters:1 ;;
  *) echo "unknown size '$size'; known: small, large, medium" >&2 && exit 2 ;;
esac

cslc layout.csl --arch=wse3 --fabric-dims="$dims" --fabric-offsets=4,1 --params="$params" \
  --memcpy --channels=1 -o out
cs_python run.py --name out
