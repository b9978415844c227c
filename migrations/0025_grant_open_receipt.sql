-- A sender notes that it found rows to be opened alone, so that the same command run again moves nothing of them once more.
GRANT SELECT (token), INSERT ON command_receipt TO ledger_webhook_sender;
