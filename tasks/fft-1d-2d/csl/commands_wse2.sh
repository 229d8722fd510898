#!/usr/bin/env bash
# Build and run on WSE-2: ./commands_wse2.sh [small|medium|plane]

set -e

size="${1:-small}"
case "$size" in
  small) dims=8,3 params=DIM:1,Nz:4,FP:2 ;;
  medium) dims=8,3 params=DIM:1,Nz:1024,FP:2 ;;
  plane) dims=23,3 params=DIM:2,Nz:16,FP:2 ;;
  *) echo "unknown size '$size'; known: small, medium, plane" >&2 && exit 2 ;;
esac

cslc layout.csl --arch=wse2 --fabric-dims="$dims" --fabric-offsets=4,1 --params="$params" \
  --memcpy --channels=1 -o out
cs_python run.py --name out
