"""The fault campaign: `make faults` breaks inputs, saves, disks, players and viewers, and checks what was promised.

python -m tests.campaign --minutes 60 --seed 7              everything
python -m tests.campaign --seed 7 --only videos --trial 17  one trial again, exactly
"""
