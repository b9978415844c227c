-- Since when a held or dead reminder waits for a person: NULL for every other row, and for one that was reviewed since.
-- An index on state, in its keys or its predicate, would forbid HOT updates to every row; this column stays NULL in a
-- row that is on its way, so an index on it forbids none.
ALTER TABLE reminder_delivery ADD COLUMN unreviewed_since timestamptz;

CREATE FUNCTION note_unreviewed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.unreviewed_since := CASE
    -- A review before the row came to this state again says nothing about this time.
    WHEN NEW.state IN ('held', 'dead') AND (NEW.reviewed_at >= NEW.state_since) IS NOT TRUE THEN NEW.state_since
  END;
  RETURN NEW;
END
$$;

CREATE TRIGGER unreviewed_from_the_start BEFORE INSERT ON reminder_delivery
  FOR EACH ROW WHEN (NEW.state IN ('held', 'dead')) EXECUTE FUNCTION note_unreviewed();

CREATE TRIGGER unreviewed_from_now BEFORE UPDATE OF state, reviewed_at ON reminder_delivery
  FOR EACH ROW WHEN (NEW.state IN ('held', 'dead') OR OLD.state IN ('held', 'dead')) EXECUTE FUNCTION note_unreviewed();
