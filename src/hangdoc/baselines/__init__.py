"""Good starts on record: record, merge, keep. Comparing is `analysis`, the form is `model.baseline`."""
