"""What every verdict is made with: intervals, BD-rate, charts, pages."""
