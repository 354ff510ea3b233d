"""Model: 3D U-Net for BraTS."""
