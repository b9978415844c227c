-- The guard: no statement, ours or a person's, can make a move that the state machine does not have.
CREATE FUNCTION refuse_unknown_transition() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF (OLD.state || ' ' || NEW.state) IN (
    'shadow held', 'shadow scheduled', 'shadow expired', 'shadow cancelled', 'shadow delivered',
    'held scheduled', 'held delivered', 'held expired', 'held cancelled',
    'scheduled dispatching', 'scheduled held', 'scheduled delivered', 'scheduled expired', 'scheduled cancelled',
    'dispatching scheduled', 'dispatching queued', 'dispatching delivering', 'dispatching held',
    'dispatching delivered', 'dispatching expired', 'dispatching cancelled',
    'queued scheduled', 'queued dispatching', 'queued delivering', 'queued held',
    'queued delivered', 'queued expired', 'queued cancelled',
    'delivering scheduled', 'delivering held', 'delivering delivered', 'delivering dead',
    'delivering expired', 'delivering cancelled',
    'dead scheduled', 'dead held', 'dead cancelled', 'dead delivered',
    'expired delivered',
    'cancelled delivered')
  THEN
    RETURN NEW;
  END IF;
  RAISE EXCEPTION 'reminder % cannot go from % to %', OLD.delivery_id, OLD.state, NEW.state
    USING ERRCODE = 'check_violation', CONSTRAINT = 'known_transition';
END
$$;

CREATE TRIGGER known_transition BEFORE UPDATE OF state ON reminder_delivery
  FOR EACH ROW WHEN (OLD.state IS DISTINCT FROM NEW.state) EXECUTE FUNCTION refuse_unknown_transition();

CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION '% on %: this is evidence and never changes', TG_OP, TG_TABLE_NAME
    USING ERRCODE = 'check_violation', CONSTRAINT = 'evidence_is_insert_only';
END
$$;

-- One identity: what names and fills a reminder is written once. Only the payload may go, when the row is archived.
CREATE TRIGGER identity_never_changes
  BEFORE UPDATE OF delivery_id, idempotency_key, producer, destination_id, payload, payload_sha256, request_fingerprint,
                   created_by_command, created_at ON reminder_delivery
  FOR EACH ROW WHEN (
    ROW (OLD.delivery_id, OLD.idempotency_key, OLD.producer, OLD.destination_id, OLD.payload_sha256,
         OLD.request_fingerprint, OLD.created_by_command, OLD.created_at)
    IS DISTINCT FROM
    ROW (NEW.delivery_id, NEW.idempotency_key, NEW.producer, NEW.destination_id, NEW.payload_sha256,
         NEW.request_fingerprint, NEW.created_by_command, NEW.created_at)
    OR (NEW.payload IS NOT NULL AND NEW.payload IS DISTINCT FROM OLD.payload))
  EXECUTE FUNCTION refuse_change();

CREATE TRIGGER reminder_is_never_deleted BEFORE DELETE ON reminder_delivery
  FOR EACH ROW EXECUTE FUNCTION refuse_change();

CREATE TRIGGER attempts_are_insert_only BEFORE UPDATE OR DELETE ON delivery_attempt
  FOR EACH ROW EXECUTE FUNCTION refuse_change();

CREATE TRIGGER outcomes_are_insert_only BEFORE UPDATE OR DELETE ON attempt_outcome
  FOR EACH ROW EXECUTE FUNCTION refuse_change();

CREATE TRIGGER receipts_are_insert_only BEFORE UPDATE OR DELETE ON handoff
  FOR EACH ROW EXECUTE FUNCTION refuse_change();

CREATE TRIGGER answers_are_insert_only BEFORE UPDATE OR DELETE ON command_receipt
  FOR EACH ROW EXECUTE FUNCTION refuse_change();

CREATE TRIGGER actions_are_insert_only BEFORE UPDATE OR DELETE ON operator_action
  FOR EACH ROW EXECUTE FUNCTION refuse_change();
