"""Model: ResNet-50."""
