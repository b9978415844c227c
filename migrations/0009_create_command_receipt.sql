-- Answers already given: a command run again under its token gets the same one and changes nothing.
CREATE TABLE command_receipt (
  token uuid NOT NULL,
  item integer NOT NULL,
  verb text NOT NULL,
  answer jsonb NOT NULL,
  answered_at timestamptz NOT NULL,
  PRIMARY KEY (token, item)
);
