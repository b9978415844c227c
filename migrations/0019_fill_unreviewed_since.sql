-- The rows that were held or dead before there was the column: its trigger fills it.
UPDATE reminder_delivery SET reviewed_at = reviewed_at WHERE state IN ('held', 'dead');
