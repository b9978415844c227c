-- Server-side time limits of every session, set by migrate from the stage's settings.
-- A utility statement takes no parameters, so a function builds it from checked numbers.
CREATE FUNCTION limit_statements(statement_timeout_ms integer, lock_timeout_ms integer)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format('ALTER DATABASE %I SET statement_timeout = %L', current_database(), statement_timeout_ms::text);
  EXECUTE format('ALTER DATABASE %I SET lock_timeout = %L', current_database(), lock_timeout_ms::text);
END
$$;
