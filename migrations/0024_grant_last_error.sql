-- A product's call that hands over at once writes down, as the claim does, that the queue refused an invitation.
GRANT UPDATE (last_error) ON reminder_delivery TO ledger_schedule;
