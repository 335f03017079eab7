"""Campaigns: rounds that are stopped and resumed, and whose labels come from people."""
