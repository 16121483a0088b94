"""Who decides the QP of a mini-GOP: rules, a leaky bucket, the direct search, its imitation, a trained agent."""
