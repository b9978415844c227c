-- For how long a receiver remembers a key: after that a replay needs evidence. NULL: nobody has registered it.
ALTER TABLE destination ADD COLUMN dedup_window_seconds integer;
-- Every row there is has NULL, which fits: nothing is left to validate.
ALTER TABLE destination ADD CONSTRAINT dedup_window_is_positive CHECK (dedup_window_seconds > 0) NOT VALID;
