#!/usr/bin/env bash
# Build and run on WSE-3: ./commands_wse3.sh [small|medium]

set -e

size="${1:-small}"
case "$size" in
  small) dims=17,12 params=P:10,Nt:4 ;;
  medium) dims=11,6 params=P:4,Nt:43 ;;
  *) echo "unknown size '$size'; known: small, medium" >&2 && exit 2 ;;
esac

cslc layout.csl --arch=wse3 --fabric-dims="$dims" --fabric-offsets=4,1 --params="$params" \
  --memcpy --channels=1 -o out
cs_python run.py --name out
