#!/usr/bin/env bash
# Build and run on WSE-3: ./commands_wse3.sh [small|large|p2|p8_t14|medium]

set -e

size="${1:-small}"
case "$size" in
  small) dims=11,6 params=P:4,Mt:14,Kt:14,Nt:14 ;;
  large) dims=15,10 params=P:8,Mt:30,Kt:30,Nt:30 ;;
  p2) dims=9,4 params=P:2,Mt:14,Kt:14,Nt:14 ;;
  p8_t14) dims=15,10 params=P:8,Mt:14,Kt:14,Nt:14 ;;
  medium) dims=10,5 params=P:3,Mt:37,Kt:35,Nt:41 ;;
  *) echo "unknown size '$size'; known: small, large, p2, p8_t14, medium" >&2 && exit 2 ;;
esac

cslc layout.csl --arch=wse3 --fabric-dims="$dims" --fabric-offsets=4,1 --params="$params" \
  --memcpy --channels=1 -o out
cs_python run.py --name out
