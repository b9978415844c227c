-- A sender notes the token of a command that opened nothing, so that the same command run again late opens nothing either.
GRANT SELECT (token), INSERT ON command_receipt TO ledger_webhook_sender;
