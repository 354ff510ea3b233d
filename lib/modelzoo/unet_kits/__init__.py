"""Model: 3D U-Net for KiTS19."""
