"""Models compiled for AWS Inferentia and Trainium."""
