-- Pauses and resumes: what operators switch, and nothing else of a destination.
GRANT UPDATE (paused, paused_since, reason) ON dispatch_gate TO ledger_operator;
GRANT UPDATE (state, state_since, state_reason) ON destination TO ledger_operator;
