-- The first schema. Times are seconds since the epoch, durations seconds, sizes bytes, states DRMAA2's numbers;
-- what is not known is NULL. A migration that was released is never changed.

-- The letters "jobd", so that nothing else is taken for it.
PRAGMA application_id = 0x6A6F6264;

CREATE TABLE meta (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

-- The last numbers given: jobs, events, daemon generations. Never reused, whatever is deleted. And the floor of the event
-- log: from first_event on it is whole, below it only jobs that are kept still have theirs.
CREATE TABLE counter (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) WITHOUT ROWID;

INSERT INTO counter (name, value) VALUES ('job', 0), ('event', 0), ('generation', 0), ('first_event', 1);

CREATE TABLE session (
    owner_uid INTEGER NOT NULL,
    name TEXT NOT NULL,
    contact TEXT NOT NULL,
    created REAL NOT NULL,
    PRIMARY KEY (owner_uid, name)
) WITHOUT ROWID;

-- Captured environments, each once by its SHA-256; jobs counts the jobs that refer to it, and at none it is deleted.
CREATE TABLE environment (
    digest TEXT PRIMARY KEY,
    jobs INTEGER NOT NULL DEFAULT 0,
    content BLOB NOT NULL
);

-- What was submitted: never changed.
CREATE TABLE job (
    id INTEGER PRIMARY KEY,
    owner_uid INTEGER NOT NULL,
    owner_name TEXT NOT NULL,
    session TEXT NOT NULL,
    backend TEXT NOT NULL,
    queue TEXT NOT NULL,
    template TEXT NOT NULL,
    labels TEXT,
    environment TEXT,
    submission_time REAL NOT NULL,
    submission_machine TEXT NOT NULL,
    retry_of TEXT
);

-- For an owner's newest job, however many others submit.
CREATE INDEX job_owner ON job (owner_uid);

-- Where it stands: a row for each run of an array's tasks that stand alike, one (0 to 0) for a single job.
CREATE TABLE task (
    job INTEGER NOT NULL,
    first INTEGER NOT NULL,
    last INTEGER NOT NULL,
    state INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    cause TEXT,
    sub_state TEXT,
    annotation TEXT,
    granted_to TEXT,
    native_id TEXT,
    machines TEXT,
    dispatch_time REAL,
    finish_time REAL,
    wallclock_time REAL,
    outcome TEXT,
    exit_status INTEGER,
    terminating_signal TEXT,
    core_dumped INTEGER,
    failed_step TEXT,
    failed_error TEXT,
    user_time REAL,
    system_time REAL,
    max_rss INTEGER,
    in_block INTEGER,
    out_block INTEGER,
    PRIMARY KEY (job, first)
) WITHOUT ROWID;

-- Start-up reads what is active, however much has ended: indexed is only that.
CREATE INDEX task_active ON task (job, first) WHERE state < 7;

CREATE TABLE event (
    seq INTEGER PRIMARY KEY,
    job INTEGER NOT NULL,
    first INTEGER NOT NULL,
    last INTEGER NOT NULL,
    before INTEGER,
    after INTEGER NOT NULL,
    sub_state TEXT,
    at REAL NOT NULL
);

CREATE INDEX event_job ON event (job);

-- Request ids outlive the jobs that they gave.
CREATE TABLE request (
    owner_uid INTEGER NOT NULL,
    request_id TEXT NOT NULL,
    digest BLOB NOT NULL,
    first INTEGER NOT NULL,
    last INTEGER NOT NULL,
    created REAL NOT NULL,
    PRIMARY KEY (owner_uid, request_id)
) WITHOUT ROWID;
