"""NVIDIA's MLPerf code: its systems and configurations, and its make commands."""
