-- Evidence may go once its reminder is archived, and not before. It still never changes.
CREATE FUNCTION refuse_change_until_archived() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'DELETE' AND EXISTS (
    SELECT FROM reminder_delivery r WHERE r.delivery_id = OLD.delivery_id AND r.archived_at IS NOT NULL)
  THEN
    RETURN OLD;
  END IF;
  RAISE EXCEPTION '% on %: this is evidence, it never changes and stays until its reminder is archived', TG_OP, TG_TABLE_NAME
    USING ERRCODE = 'check_violation', CONSTRAINT = 'evidence_is_insert_only';
END
$$;

CREATE OR REPLACE TRIGGER attempts_are_insert_only BEFORE UPDATE OR DELETE ON delivery_attempt
  FOR EACH ROW EXECUTE FUNCTION refuse_change_until_archived();

CREATE OR REPLACE TRIGGER outcomes_are_insert_only BEFORE UPDATE OR DELETE ON attempt_outcome
  FOR EACH ROW EXECUTE FUNCTION refuse_change_until_archived();

CREATE OR REPLACE TRIGGER receipts_are_insert_only BEFORE UPDATE OR DELETE ON handoff
  FOR EACH ROW EXECUTE FUNCTION refuse_change_until_archived();

-- An answer already given goes once no run of its command can still be under way: those end within minutes.
CREATE FUNCTION refuse_change_of_young() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'DELETE' AND OLD.answered_at < now() - interval '30 days' THEN
    RETURN OLD;
  END IF;
  RAISE EXCEPTION '% on %: this is evidence, it never changes and stays for 30 days', TG_OP, TG_TABLE_NAME
    USING ERRCODE = 'check_violation', CONSTRAINT = 'evidence_is_insert_only';
END
$$;

CREATE OR REPLACE TRIGGER answers_are_insert_only BEFORE UPDATE OR DELETE ON command_receipt
  FOR EACH ROW EXECUTE FUNCTION refuse_change_of_young();
