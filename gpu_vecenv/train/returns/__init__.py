"""From rewards to advantages: segmented scans, running statistics, returns of episodes."""
