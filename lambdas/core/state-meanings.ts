// What each state of a reminder means, and what a crash leaves behind there.
import type { DeliveryState } from './delivery-states.ts';

/** What a state means, who acts next, and what a crash leaves behind there. */
export const stateMeanings: Readonly<Record<DeliveryState, { meaning: string; afterCrash: string }>> = {
  shadow: {
    meaning: 'Written beside the path that is still authoritative; never sent from here until it is adopted.',
    afterCrash: 'Nothing runs for it, so nothing is left behind.',
  },
  held: {
    meaning: 'A person must decide; the reason stands in hold_reason.',
    afterCrash: 'Nothing runs for it; its age pages until it is released, cancelled or resolved.',
  },
  scheduled: {
    meaning: 'Durable and not yet claimed; the calendar looks at it at wake_at.',
    afterCrash: 'The next tick claims it.',
  },
  dispatching: {
    meaning: 'Leased to a claim that is handing it to the queue.',
    afterCrash: 'Its wake_at passes and another claim takes it; the same id may be in the queue twice.',
  },
  queued: {
    meaning: 'The queue accepted an invitation; the receipt is kept in handoff.',
    afterCrash: 'If the invitation never arrives, its wake_at passes and it is invited again under the same id.',
  },
  delivering: {
    meaning: 'A sender owns an open attempt under a lease.',
    afterCrash: 'The lease passes, the claim closes the attempt as unknown and decides what follows.',
  },
  delivered: {
    meaning: 'A 2xx, or recorded evidence, says that the receiver has it. Final.',
    afterCrash: 'Nothing runs for it.',
  },
  dead: {
    meaning: 'The retry policy is exhausted or the failure is permanent; a person may requeue it.',
    afterCrash: 'Nothing runs for it; its unreviewed age pages.',
  },
  expired: {
    meaning: 'Its time was over before a success was known; it may have been processed when an attempt is unknown.',
    afterCrash: 'Nothing runs for it.',
  },
  cancelled: {
    meaning: 'The product or an operator called it off before a success was known.',
    afterCrash: 'Nothing runs for it.',
  },
};
