"""Data set: news articles and their summaries (CNN/DailyMail)."""
