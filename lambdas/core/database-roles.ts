// The roles of the database: one for each kind of work, with the least grants that it can be done with.

/**
 * A group role without a login of its own, made and granted to by the migrations. Those who do its work log in as one of
 * its two members, `<role>_a` and `<role>_b`, of which a rotation uses the other each time.
 */
export type DatabaseRole =
  | 'ledger_schedule'
  | 'ledger_claim'
  | 'ledger_webhook_sender'
  | 'ledger_operator'
  | 'ledger_observer'
  | 'ledger_retain';

/** What each role is for. */
export const databaseRoles: Readonly<Record<DatabaseRole, string>> = {
  ledger_schedule: 'takes the commands of products',
  ledger_claim: 'advances the calendar each minute',
  ledger_webhook_sender: 'opens and settles attempts',
  ledger_operator: 'registers destinations, readmits rows and reads everything, for people',
  ledger_observer: 'reads everything and changes nothing',
  ledger_retain: 'takes payload and evidence of what is archived, and may delete nothing else',
};

/** The login that a role's secret begins with. */
export function firstLogin(role: DatabaseRole): string {
  return `${role}_a`;
}

/** The role that a login is a member of; undefined for anybody else. */
export function roleOfLogin(login: string): DatabaseRole | undefined {
  const role = /^(.+)_[ab]$/.exec(login)?.[1];
  return role !== undefined && Object.hasOwn(databaseRoles, role) ? (role as DatabaseRole) : undefined;
}

/** The other login of the same role: a rotation goes to and fro between the two. */
export function otherLogin(login: string): string {
  return login.replace(/[ab]$/, (end) => (end === 'a' ? 'b' : 'a'));
}
