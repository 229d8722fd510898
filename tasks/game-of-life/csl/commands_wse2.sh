#!/usr/bin/env bash
# Build and run on WSE-2: ./commands_wse2.sh [small|medium]

set -e

size="${1:-small}"
case "$size" in
  small) dims=19,14 params=x_dim:12,y_dim:12,iters:20 ;;
  medium) dims=24,11 params=x_dim:17,y_dim:9,iters:75 ;;
  *) echo "unknown size '$size'; known: small, medium" >&2 && exit 2 ;;
esac

cslc layout.csl --arch=wse2 --fabric-dims="$dims" --fabric-offsets=4,1 --params="$params" \
  --memcpy --channels=1 -o out
cs_python run.py --name out
