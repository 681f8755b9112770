"""From rewards to advantages: recurrences over time, running statistics, returns of episodes."""
