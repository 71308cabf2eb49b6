#!/bin/bash
# Stands in for the script of ROCm's Megatron-LM images: the same variables, one rank on the CPU for the GPUs of a node.
set -e
exec torchrun --nproc-per-node=1 --nnodes="$NNODES" --node-rank="$NODE_RANK" \
    --master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT" \
    /opt/stand_in/stand_in.py megatron --steps "$TOTAL_ITERS" --batch "$BS" --sequence "$SEQ_LENGTH" --gpus $((8 * NNODES))
