#!/bin/bash
# 50,000 images by an array of 64 tasks: MODEL=DIR sbatch deploy/slurm/image.sh, then
# unmask gather samples shards/*
#SBATCH --array=0-63
#SBATCH --cpus-per-task=8
#SBATCH --requeue
#SBATCH --signal=TERM@60
srun unmask image --model "$MODEL" -n "${IMAGES:-50000}" --out "shards/$SLURM_ARRAY_TASK_ID" --shard auto --threads "${SLURM_CPUS_PER_TASK:-1}"
status=$?
# TERM came before the end of the time: what was finished is kept, and the task goes on later.
if [ $status -eq 143 ] || [ $status -eq 130 ]; then
    scontrol requeue "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID"
fi
exit $status
