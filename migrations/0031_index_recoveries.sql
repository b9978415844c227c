-- runs outside a transaction: what people did lately, by what it was: the cap on what is republished, and what was set aside.
CREATE INDEX CONCURRENTLY IF NOT EXISTS operator_action_verb ON operator_action (verb, acted_at);
