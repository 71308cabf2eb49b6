"""Which lines are worth looking at, told at a glance."""

import re

INTERESTING = re.compile(
    rb"iteration\s*\d*\s*/|completed (?:profiler|step)|Training epoch|step: |Epoch .*train_step|Step Time :"
    rb"| \.{2,} |end of arguments|-- arguments|Config param |padded vocab|Padded vocab|Num_devices"
    rb"|Jax (?:Backend|Version)|CUDA capacity|Float|memory \([MG]B\)|MaxMemAllocated|Using \(GB\)|Memstats"
    rb"|MnRtt/|after training is done|exiting program|Trainer.fit|Training (?:completed|starts)|training finished"
    rb"|steelyard trainer|shutdown result|Ran out of data|launcher exited|torchrun finished"
    rb"|checkpoint|Restor|restor|validat|Validation|eval"
    rb"|throughput per GPU: |elapsed time per iteration: |tokens/GPU/s: |mem usages: "
    rb"|rror|RROR|xception|Traceback|out of memory|Out [Oo]f [Mm]emory|OOM|oom|EXHAUSTED|bad_alloc|Xid|fallen off"
    rb"|ECC|ncorrectable|[Hh]ang|[Rr]eset|fault|Fatal|HSA_STATUS|device handle|ring .*timeout"
    rb"|found NaN|found Inf|Unexpected result|Aborting|loss scale already|[Ww]atchdog|NCCL|RCCL|nccl|visible GPU"
    rb"|hipInit|cuInit|librocm|catastrophic|heartbeat|Heartbeat|fatal|Check fail|terminate called|_STATUS_"
    rb"|DataLoader worker|exitcode|exit code|srun:|slurmstepd|SIG|Killed|Aborted|Terminated|signal|MPI_ABORT|aborted"
    rb"|Bus error|core dumped|Segmentation|Using network|NET/"
    rb"|hf_|gh[pousr]_|github_pat_|glpat-|xox[bp]-|nvapi-|\bsk-|AKIA|eyJ|[Bb]earer|Basic |://[^/ ]{1,100}@|wandb login"
    rb"|[Tt]oken[\"' =:.]|TOKEN|[Ss]ecret|SECRET|PASSW|[Pp]assw|[Aa][Pp][Ii][-_]?[Kk][Ee][Yy]|[Kk]ey[=:]|_key|-key"
    rb"|[Aa]ccess_?[Kk]ey|ACCESS_?KEY|AccountKey|CREDENTIAL|Signature="
)
"""What a line that says anything holds. It looks at no digit, so one answer serves every line of a shape."""

TELLTALE = re.compile(
    rb"\[titan\]|\[NeMo|nemo_run|torchtitan|megatron|primus|rank-|log_dist|metric_logger|axText|maxtext|MAXTEXT"
)
"""What tells a dialect, as long as none is known."""

_STEPLIKE = re.compile(
    rb"(?:^|\] ?|: )\s*iteration\s+\d+\s*/"
    rb"|^\s*(?:\[Rampup[^\]]*\], )?completed (?:profiler activation/deactivation )?step: ?\d"
    rb"|^\s*Training epoch \d|^\s*step:\s+\d"
)
_NOT_A_STEP = re.compile(rb"\bsaved|\bsaving|checkpoint", re.I)


def looks_like_a_step(text: bytes) -> bool:
    """Whether a line starts as step lines do; one that then cannot be read is not passed over."""
    return bool(_STEPLIKE.search(text)) and not _NOT_A_STEP.search(text)
