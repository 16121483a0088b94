#!/bin/bash
# sbatch --nodes 4 --cpus-per-task 32 examples/cluster/slurm.sh reel evaluate superblock
#
# Starts a Ray node on every machine of the allocation, runs the command on the first one with --ray, and ends them all.
# When the time limit is near, SLURM sends SIGTERM; the same job, submitted again, goes on from the cache.
#SBATCH --job-name reelrl
#SBATCH --ntasks-per-node 1
#SBATCH --exclusive
#SBATCH --signal TERM@120
set -euo pipefail

port=6379
head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
address=$(srun --nodes 1 --ntasks 1 -w "$head" hostname -I | awk '{print $1}')
# One secret for this job alone: without it, anybody on the network could run programs as this user.
export RAY_AUTH_MODE=token RAY_AUTH_TOKEN RAY_USAGE_STATS_ENABLED=0 OMP_NUM_THREADS=1
RAY_AUTH_TOKEN=$(python -c 'import secrets; print(secrets.token_hex(32))')
export REELRL_CACHE=${REELRL_CACHE:-$HOME/.cache/reelrl}   # on the shared file system

srun --nodes 1 --ntasks 1 -w "$head" \
  ray start --head --node-ip-address "$address" --port $port --num-cpus "$SLURM_CPUS_PER_TASK" \
  --include-dashboard=false --block &
sleep 15
others=$((SLURM_JOB_NUM_NODES - 1))
if ((others > 0)); then
  srun --nodes $others --ntasks $others --exclude "$head" \
    ray start --address "$address:$port" --num-cpus "$SLURM_CPUS_PER_TASK" --block &
fi

# Nodes that come up later than the command get work when they are there.
srun --overlap --nodes 1 --ntasks 1 -w "$head" "$@" --ray "$address:$port"
