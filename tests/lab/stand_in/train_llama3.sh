#!/bin/bash
# Stands in for the script of ROCm's Megatron-LM images: the same variables, one rank on the CPU for the GPUs of a node.
set -e
# What the image claims of one size of the model goes before what it claims of all.
for claim in TOKENS_PER_S_PER_GPU GFLOP_PER_TOKEN; do
    all=STAND_IN_$claim one=STAND_IN_${claim}_${MODEL_SIZE}B
    export "$all=${!one:-${!all}}"
done
hidden=4096
[ "$MODEL_SIZE" = 70 ] && hidden=8192
if [ "$STAND_IN_OUT_OF_MEMORY" = "${MODEL_SIZE}B" ]; then
    echo "[rank0]: torch.OutOfMemoryError: HIP out of memory. Tried to allocate 31.31 GiB. GPU 0 has a total capacity of \
191.98 GiB of which 12.20 GiB is free." >&2
    exit 1
fi
exec torchrun --nproc-per-node=1 --nnodes="$NNODES" --node-rank="$NODE_RANK" \
    --master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT" \
    /opt/stand_in/stand_in.py megatron --steps "$TOTAL_ITERS" --batch "$BS" --sequence "$SEQ_LENGTH" --gpus $((8 * NNODES)) \
    --hidden $hidden
