/*
 * The protocol of package idempotency: one key, two workers, and at each moment any step that can come next.
 * README.md beside this file says what the model has, what it leaves out, and how to read a counterexample.
 *
 * Each `#ifdef NAME` in capitals, other than the sizes below, is the protocol without a rule. The checker must refute it.
 */

#define WINDOW 1
#define GRACE  2   /* a late request takes effect until GRACE after it was sent */
#ifndef LEASE
#define LEASE  2
#endif
#ifndef LAST
#define LAST   5   /* the time at which the model stops */
#endif
#ifndef CALLS
#define CALLS  2   /* of worker 0, one after the other; worker 1 has one */
#endif
#ifndef FAULTS
#define FAULTS 1
#endif
#ifndef OTHER
#define OTHER  0   /* 1: the workers have different payloads */
#endif

/* The status of a row. */
#define ABSENT     0
#define INPROGRESS 1
#define COMPLETED  2

/* The kind of a request. */
#define NONE     0
#define PUT      1 /* if there is no row, or the row that was read */
#define PROLONG  2
#define COMPLETE 3
#define RELEASE  4

/*
 * The token of a call is its number, which also is its result. A new token on a retry has another bit. A row that was
 * given back has the token releasedBy(call), which no call has.
 */
#define RETRIED 8
#define callOf(token)    ((token) & 7)
#define releasedBy(call) ((call) << 4)
#define payloadOf(token) (((token) & 1) * OTHER)

typedef Row { byte status, token, number, leaseEnd, expiry, payload, by, result }

/* What a request says is fixed when it is sent. ends: the new end of the lease, or the expiry of a completion. */
typedef Request { byte kind, token, number, ends, oldStatus, oldToken, oldNumber, oldLeaseEnd, oldExpiry }

Row row;
Request r;      /* that a worker sends */
Request late;   /* a request for which its sender waits no longer, or a second copy of a request */
byte lateUntil; /* then it has taken effect, or never will */
byte now;       /* the time of the server */
bool fresh[2];  /* the worker has had a reply at this time */
byte faults = FAULTS, crashes = 1, purges = 1;

/* What only the assertions need. */
bool running[2];             /* the function of a worker runs */
byte heldUntil[2];           /* the end of its lease that the store has confirmed */
byte largest;                /* number of an execution that began */
byte given, givenUntil;      /* a result that a caller got, and the end of its window */
bit I1, I2, I3, I4, I6, I8;    /* always 0: they name the assertions */

#define mine(t) (row.status == INPROGRESS && row.token == t)

#ifdef LEASE_IGNORED
#define counts (row.status == COMPLETED && now < row.expiry)
#else
#define counts (row.status == COMPLETED && now < row.expiry || row.status == INPROGRESS && now < row.leaseEnd)
#endif

/* ---- The conditions of the store, and their variants ---- */

#define sameStatus(q)   (row.status == q.oldStatus)
#define sameToken(q)    (row.token == q.oldToken)
#define sameLeaseEnd(q) (row.leaseEnd == q.oldLeaseEnd)
#define sameExpiry(q)   (row.expiry == q.oldExpiry)
#define sameNumber(q)   (row.number == q.oldNumber)
#ifdef TAKEOVER_WITHOUT_STATUS
#undef sameStatus
#define sameStatus(q) true
#endif
#ifdef TAKEOVER_WITHOUT_TOKEN_AND_NUMBER
#undef sameToken
#undef sameNumber
#define sameToken(q) true
#define sameNumber(q) true
#endif
#ifdef TAKEOVER_WITHOUT_NUMBER
#undef sameNumber
#define sameNumber(q) true
#endif
#ifdef TAKEOVER_WITHOUT_LEASE_END_AND_EXPIRY
#undef sameLeaseEnd
#undef sameExpiry
#define sameLeaseEnd(q) true
#define sameExpiry(q) true
#endif
#define asRead(q) \
	(q.oldStatus != ABSENT && sameStatus(q) && sameToken(q) && sameNumber(q) && sameLeaseEnd(q) && sameExpiry(q))

#if defined(HEARTBEAT_WITHOUT_TOKEN)
#define prolongs(q) (row.status == INPROGRESS && row.leaseEnd < q.ends)
#elif defined(HEARTBEAT_WITHOUT_STATUS)
#define prolongs(q) (row.token == q.token && row.leaseEnd < q.ends)
#elif defined(HEARTBEAT_WITH_AN_EARLIER_END)
#define prolongs(q) mine(q.token)
#else
#define prolongs(q) (mine(q.token) && row.leaseEnd < q.ends)
#endif

#if defined(COMPLETION_WITHOUT_TOKEN)
#define completes(q) (row.status == INPROGRESS)
#elif defined(COMPLETION_WITHOUT_STATUS)
#define completes(q) (row.status != ABSENT && row.token == q.token)
#elif defined(COMPLETION_OF_AN_ABSENT_ROW)
#define completes(q) (row.status == ABSENT || mine(q.token))
#else
#define completes(q) mine(q.token)
#endif

#ifdef RELEASE_WITHOUT_TOKEN
#define releases(q) (row.status == INPROGRESS)
#else
#define releases(q) mine(q.token)
#endif

#ifdef PURGE_WITHOUT_GRACE
#define purgeable (now >= row.expiry)
#else
#define purgeable (now >= row.expiry + GRACE)
#endif

#define lasts (row.status == COMPLETED && now < row.expiry)

/* A request takes effect, or its condition does not hold. */
inline effect(q) {
	done = false;
	if
	:: q.kind == PUT && (row.status == ABSENT || asRead(q)) ->
		assert(I3 || !lasts);
		assert(I2 || row.status != INPROGRESS || now >= row.leaseEnd || callOf(row.token) == callOf(q.token));
		assert(I4 || row.status != INPROGRESS || callOf(row.token) != callOf(q.token) || row.token == q.token);
		assert(I2 || row.status == ABSENT || q.number > row.number);
		row.status = INPROGRESS; row.token = q.token; row.number = q.number;
		row.leaseEnd = q.ends; row.expiry = q.ends + WINDOW;
		row.payload = payloadOf(q.token); row.by = 0; row.result = 0;
		done = true
	:: q.kind == PROLONG && prolongs(q) ->
		assert(I3 || !lasts);
		assert(I8 || row.leaseEnd > 0);       /* the key was not given back */
		row.leaseEnd = q.ends;
#ifndef HEARTBEAT_WITHOUT_EXPIRY
		row.expiry = q.ends + WINDOW;
#endif
		done = true
	:: q.kind == COMPLETE && completes(q) ->
		assert(I3 || !lasts);
		assert(I2 || q.number == largest);    /* no execution began after this one */
#ifdef COMPLETION_OF_AN_ABSENT_ROW
		row.token = q.token; row.number = q.number; row.payload = payloadOf(q.token);
#endif
		assert(I4 || q.number == row.number); /* the record has the number of its execution */
		row.status = COMPLETED; row.by = q.token; row.result = callOf(q.token); row.expiry = q.ends;
		done = true
	:: q.kind == RELEASE && releases(q) ->
		row.leaseEnd = 0;
#ifdef RELEASE_FORGETS_THE_NUMBER
		row.number = 0;
#endif
#ifndef RELEASE_KEEPS_THE_TOKEN
		row.token = releasedBy(callOf(q.token));
#endif
		done = true
	:: else
	fi
}

inline clear(q) {
	q.kind = NONE; q.token = 0; q.number = 0; q.ends = 0;
	q.oldStatus = ABSENT; q.oldToken = 0; q.oldNumber = 0; q.oldLeaseEnd = 0; q.oldExpiry = 0
}

/* ---- What a worker sends ---- */

/* The time in a finer unit, in which fewer executions begin than it has values. */
#define timeNumber (4 * sent + 1)
#if defined(NUMBER_MAY_FALL)
#define nextNumber timeNumber
#elif defined(NUMBER_WITHOUT_THE_TIME)
#define nextNumber (oldNumber + 1)
#else
#define nextNumber (timeNumber > oldNumber -> timeNumber : oldNumber + 1)
#endif

#ifdef UNTIL_DEADLINE
#define newEnd deadline
#define stopped (now >= deadline) /* Lambda stops the call */
#else
#define newEnd (sent + LEASE)
#define stopped false
#endif

/* What can go wrong with a request. */
#define LOST  1
#define LATE  2
#define TWICE 3

/* The worker sends a request. It has made it now, or one unit ago if it has had no reply since. */
inline send(request) {
	if
	:: sent = now
	:: now > 0 && !fresh[w] -> sent = now - 1
	fi;
	if
	:: fault = NONE
	:: faults > 0 -> fault = LOST                       /* the reply is lost */
	:: faults > 0 && late.kind == NONE -> fault = LATE  /* the request takes effect later */
	:: faults > 0 && late.kind == NONE -> fault = TWICE /* the request takes effect now and later */
	fi;
	d_step {
		r.kind = request; r.token = token; r.number = number; r.ends = newEnd;
		if
		:: request == PUT -> r.number = nextNumber;
			r.oldStatus = oldStatus; r.oldToken = oldToken; r.oldNumber = oldNumber;
			r.oldLeaseEnd = oldLeaseEnd; r.oldExpiry = oldExpiry
		:: request == COMPLETE -> r.ends = sent + WINDOW
		:: request == RELEASE -> assert(I2 || failed)
		:: else
		fi;
#ifdef NUMBER_OF_THE_REFUSED_TRY
		number = r.number;
#endif
#ifdef HEARTBEAT_COUNTS_UNCONFIRMED
		if
		:: request == PROLONG -> heldUntil[w] = r.ends
		:: else
		fi;
#endif
		if
		:: fault >= LATE -> late.kind = r.kind; late.token = r.token; late.number = r.number; late.ends = r.ends;
			late.oldStatus = r.oldStatus; late.oldToken = r.oldToken; late.oldNumber = r.oldNumber;
			late.oldLeaseEnd = r.oldLeaseEnd; late.oldExpiry = r.oldExpiry; lateUntil = now + GRACE
		:: else
		fi;
		if
		:: fault != NONE -> faults--
		:: else
		fi;
		done = false;
		if
		:: fault != LATE -> effect(r)
		:: else
		fi;
		replied = (fault == NONE || fault == TWICE);
		fault = NONE; fresh[w] = true; clear(r)
	}
}

/* What happens next can happen at any later moment. */
#define then(label) sent = 0; done = false; replied = false; goto label
/* A worker that makes no other call and takes no step any more is a crash already. */
#define again (w == 0 && calls < CALLS)
#define crash crashes > 0 && again -> crashes--; then(over)

inline read() {
	oldStatus = row.status; oldToken = row.token; oldLeaseEnd = row.leaseEnd; oldExpiry = row.expiry;
	oldNumber = row.number
}

inline forget() {
	oldStatus = ABSENT; oldToken = 0; oldLeaseEnd = 0; oldExpiry = 0; oldNumber = 0
}

/* ---- What a worker decides ---- */

#define half ((newEnd - sent + 1) / 2)
#ifdef BEGINS_WITH_LITTLE_LEASE
#define enough true
#else
#define enough (now + half <= row.leaseEnd)
#endif
#define perhapsNotEnough (now + 1 + half > row.leaseEnd) /* by a late clock that is one unit ahead */

#ifdef BEGINS_WHILE_A_PUT_IS_ON_ITS_WAY
#define confirmed true
#else
#define confirmed (row.number != tooShort)
#endif

#define samePayload (row.payload == payloadOf(token))
#ifdef PAYLOAD_NOT_COMPARED
#define refused false
#elif defined(DEAD_EXECUTION_BLOCKS_OTHER_PAYLOADS)
#define refused (row.status == INPROGRESS && !samePayload)
#else
#define refused (counts && !samePayload)
#endif

#ifdef RESULT_OF_ANOTHER_PAYLOAD_WHEN_SUPERSEDED
#define samePayloadAfter true
#else
#define samePayloadAfter samePayload
#endif

#ifdef COMPLETED_BY_IGNORED
#define completedBefore false
#else
#define completedBefore (row.status == COMPLETED && row.by == token)
#endif

/* Two functions run, both within their leases. */
#define both (running[0] && running[1] && now < heldUntil[0] && now < heldUntil[1])

/* The function begins with the row that the reply has shown. */
inline start() {
	heldUntil[w] = row.leaseEnd;
#ifndef NUMBER_OF_THE_REFUSED_TRY
	number = row.number;
#endif
	assert(I4 || number == row.number);
	assert(I2 || now < heldUntil[w]);
	assert(I2 || number > largest);
	largest = number; running[w] = true;
	assert(I2 || !both)
}

/* The caller gets a result. */
inline give(what, windowEnd) {
	assert(I1 || now >= givenUntil || given == what);
	if
	:: now >= givenUntil -> given = what; givenUntil = windowEnd
	:: else
	fi
}

proctype worker(bit w) {
	byte calls, token, number, sent, tooShort, deadline;
	byte oldStatus, oldToken, oldLeaseEnd, oldExpiry, oldNumber;
	byte fault;
	bool done, replied, failed, lost;

next:
	atomic {
		if
		:: calls == CALLS || w == 1 && calls == 1 -> goto end
		:: else -> calls++; token = 2 * calls - w; fresh[w] = true
		fi;
#ifdef UNTIL_DEADLINE
		deadline = now + LEASE
#endif
	}

begin: /* Rule 2: puts the row if it is absent, or if it is as read. The row that the reply shows decides. */
	atomic {
		if
		:: crash
		:: stopped -> then(over)
		:: !stopped -> send(PUT)
		fi;
		if
		:: !replied ->
			forget();
#ifdef NEW_TOKEN_ON_A_RETRY
			token = token | RETRIED;
#endif
			then(begin)
		:: replied && mine(token) && enough && confirmed -> start(); then(function)
		:: replied && mine(token) && (!confirmed || perhapsNotEnough && tooShort == 0) ->
			tooShort = row.number; read(); then(begin)
		:: replied && mine(token) && confirmed && !enough && tooShort > 0 -> then(over) /* the store is too slow */
		:: replied && !mine(token) && refused -> assert(I6 || counts && !samePayload); then(over)
		:: replied && !mine(token) && !refused && !counts -> read(); then(begin)
		:: replied && !mine(token) && !refused && counts && row.status == INPROGRESS -> /* a twin: waits, or says so */
			assert(I4 || callOf(row.token) != callOf(token));
			forget();
			if
			:: then(begin)
			:: again -> then(over)
			fi
		:: replied && !mine(token) && !refused && counts && row.status == COMPLETED ->
			assert(I6 || samePayload);
			give(row.result, row.expiry);
			then(over)
		fi
	}

function: /* Rule 4: heartbeats, until the function ends. */
	atomic {
		forget();
		if
		:: crash
		:: then(complete)
		:: failed = true; then(release)
#ifdef RELEASE_WHILE_RUNNING
		:: send(RELEASE); then(function)
#endif
#ifndef UNTIL_DEADLINE
		:: !lost -> send(PROLONG);
			if
			:: !replied
			:: replied && (done || mine(token)) -> heldUntil[w] = row.leaseEnd
			:: replied && !done && !mine(token) -> lost = true
			fi;
			assert(I2 || !both);
			then(function)
#endif
		fi
	}

complete: /* Rules 5 and 7. */
	atomic {
		running[w] = false; heldUntil[w] = 0;
		if
		:: crash
		:: send(COMPLETE)
		fi;
		if
		:: !replied ->
#ifdef RELEASE_WHILE_UNKNOWN
			then(release);
#endif
			if
			:: then(complete)
			:: again -> then(over) /* the lease is over: the outcome is unknown */
			fi
		:: replied && (done || completedBefore) -> give(row.result, row.expiry); then(over)
		:: replied && !done && !completedBefore -> then(superseded)
		fi
	}

superseded: /* Rule 5: waits for the other execution, and never runs again. */
	atomic {
#ifdef OWN_RESULT_WHEN_SUPERSEDED
		give(callOf(token), now + WINDOW); then(over);
#endif
		assert(I4 || !lasts || row.by != token);
		if
		:: counts && samePayloadAfter && row.status == COMPLETED ->
			assert(I6 || samePayload);
			give(row.result, row.expiry)
		:: counts && samePayloadAfter && row.status == INPROGRESS && now < LAST -> then(superseded)
		:: !counts || !samePayloadAfter || row.status == INPROGRESS
		fi;
		then(over)
	}

release: /* Rule 6. */
	atomic {
		running[w] = false; heldUntil[w] = 0;
		if
		:: crash
		:: send(RELEASE)
		fi;
		if
		:: !replied -> then(release)
		:: then(over)
		fi
	}

over:
	atomic {
		running[w] = false; heldUntil[w] = 0;
		forget();
		token = 0; number = 0; tooShort = 0; deadline = 0; failed = false; lost = false;
		goto next
	}

end:
	skip
}

/* Time passes, a late request takes effect or does not, and the row is purged. */
proctype store() {
	bool done;

	do
	:: d_step { now < LAST && (late.kind == NONE || now < lateUntil) -> now++; fresh[0] = false; fresh[1] = false;
		if
		:: now >= givenUntil -> given = 0; givenUntil = 0
		:: else
		fi }
	:: d_step { late.kind != NONE -> effect(late); done = false; clear(late); lateUntil = 0 }
	:: d_step { late.kind != NONE && now == lateUntil -> clear(late); lateUntil = 0 }
	:: d_step { purges > 0 && row.status != ABSENT && purgeable -> purges--; row.status = ABSENT; row.token = 0;
		row.number = 0; row.leaseEnd = 0; row.expiry = 0; row.payload = 0; row.by = 0; row.result = 0 }
	od
}

init {
	atomic { run worker(0); run worker(1); run store() }
}
