-- What a failed or unknown attempt leads to: one rule for the sender's settle and the claim's recover.

-- Full jitter: a fraction (0 to 1) of the doubled pause. Clock and chance are arguments, so the rule is a pure function.
CREATE FUNCTION retry_delay(failures integer, base_seconds double precision, cap_seconds double precision,
                            fraction double precision, asked_seconds double precision)
RETURNS interval LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT make_interval(secs => GREATEST(
    fraction * LEAST(base_seconds * power(2, LEAST(GREATEST(failures, 0), 10)), cap_seconds),
    COALESCE(asked_seconds, 0)))
$$;

CREATE FUNCTION state_after_failure(outcome text, contract text, cancel_requested_at timestamptz, expires_at timestamptz,
                                    attempts integer, failures integer, hard_cap integer, max_failures integer,
                                    at timestamptz, next_attempt_at timestamptz)
RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE
    WHEN cancel_requested_at IS NOT NULL THEN 'cancelled'
    WHEN outcome IN ('permanent', 'gone') THEN 'dead'
    WHEN expires_at <= at THEN 'expired'
    -- Only a receiver that honours the key may get it again unasked.
    WHEN outcome = 'unknown' AND contract <> 'honours-key' THEN 'held'
    WHEN attempts >= hard_cap OR failures >= max_failures THEN 'dead'
    -- No attempt can land before its time is over: say so now rather than later.
    WHEN expires_at <= next_attempt_at THEN 'expired'
    ELSE 'scheduled'
  END
$$;
