// What keeps the database's log free of the rows it is about.

/**
 * Parameters of PostgreSQL under which its log names an error and never the row, the statement or the values that met it
 * (PostgreSQL manual, "Error Reporting and Logging"): no DETAIL and no CONTEXT, no text of failed statements, no parameters.
 */
export const databaseLogParameters: Readonly<Record<string, string>> = {
  log_error_verbosity: 'terse',
  log_min_error_statement: 'panic',
  log_parameter_max_length: '0',
  log_parameter_max_length_on_error: '0',
  log_statement: 'none',
  log_min_duration_statement: '-1',
  log_lock_waits: '0',
};
