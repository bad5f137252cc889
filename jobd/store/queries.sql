-- Every query of the store, by name. A line "-- name: purpose" begins one; its text goes on to the next.

-- insert_job: a submission
INSERT INTO job (id, owner_uid, owner_name, session, backend, queue, template, labels, environment, submission_time,
    submission_machine, retry_of)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- put_task: where a run of tasks stands now
INSERT OR REPLACE INTO task (job, first, last, state, attempt, cause, sub_state, annotation, granted_to, native_id,
    machines, dispatch_time, finish_time, wallclock_time, outcome, exit_status, terminating_signal, core_dumped,
    failed_step, failed_error, user_time, system_time, max_rss, in_block, out_block)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- delete_task: a run that was split or merged away
DELETE FROM task WHERE job = ? AND first = ?

-- insert_event: a transition
INSERT INTO event (seq, job, first, last, before, after, sub_state, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)

-- put_environment: an environment, unless it is there
INSERT OR IGNORE INTO environment (digest, content) VALUES (?, ?)

-- count_environment: more or fewer jobs refer to an environment
UPDATE environment SET jobs = jobs + ? WHERE digest = ?

-- drop_environment: an environment that no job refers to any more
DELETE FROM environment WHERE digest = ? AND jobs <= 0

-- insert_session: a job session
INSERT INTO session (owner_uid, name, contact, created) VALUES (?, ?, ?, ?)

-- delete_session: a job session is destroyed; its jobs stay
DELETE FROM session WHERE owner_uid = ? AND name = ?

-- insert_request: what a request id gave
INSERT INTO request (owner_uid, request_id, digest, first, last, created) VALUES (?, ?, ?, ?, ?, ?)

-- set_counter: the last number given
UPDATE counter SET value = ? WHERE name = ?

-- environments_of_jobs: how many of the jobs refer to each environment
SELECT environment, count(*) FROM job
WHERE id IN (SELECT value FROM json_each(?)) AND environment IS NOT NULL GROUP BY environment

-- delete_jobs: finished jobs are forgotten
DELETE FROM job WHERE id IN (SELECT value FROM json_each(?))

-- delete_tasks: with them how they ended
DELETE FROM task WHERE job IN (SELECT value FROM json_each(?))

-- step_end: the job that lies so many runs further on
SELECT job FROM task WHERE job >= ? ORDER BY job LIMIT 1 OFFSET ?

-- expired_jobs: finished jobs from one to another that ended before a time, oldest first
SELECT job FROM task WHERE job BETWEEN ? AND ?
GROUP BY job HAVING min(state) >= 7 AND max(finish_time) < ? ORDER BY job LIMIT ?

-- surplus_jobs: finished jobs beyond the newest so many, oldest first, in a bounded step
SELECT job FROM task WHERE state >= 7 AND job <= (
    SELECT job FROM task WHERE state >= 7 GROUP BY job ORDER BY job DESC LIMIT 1 OFFSET ?
) AND NOT EXISTS (SELECT 1 FROM task AS other WHERE other.job = task.job AND other.state < 7)
GROUP BY job ORDER BY job LIMIT ?

-- delete_events: events from a number up to another, but for those of jobs that are kept
DELETE FROM event WHERE seq >= ? AND seq < ? AND NOT EXISTS (SELECT 1 FROM job WHERE job.id = event.job)

-- delete_events_of_jobs: events below the floor are there for their jobs alone
DELETE FROM event WHERE job IN (SELECT value FROM json_each(?))
    AND seq < (SELECT value FROM counter WHERE name = 'first_event')

-- first_event_of_ended: the first event of the oldest finished job that is kept
SELECT min(seq) FROM event WHERE job = (SELECT job FROM task WHERE state >= 7 ORDER BY job LIMIT 1)

-- expired_requests: request ids that are older than anybody would repeat, in a bounded step
SELECT owner_uid, request_id FROM request WHERE created < ? LIMIT ?

-- delete_request: one of them
DELETE FROM request WHERE owner_uid = ? AND request_id = ?

-- bump_generation: a daemon starts
UPDATE counter SET value = value + 1 WHERE name = 'generation' RETURNING value

-- counters: the last numbers given
SELECT name, value FROM counter

-- meta: facts about this store
SELECT name, value FROM meta

-- set_meta: a fact about this store
INSERT INTO meta (name, value) VALUES (?, ?)

-- active: every run of tasks that has not ended, with its job
SELECT job.*, task.* FROM task INDEXED BY task_active JOIN job ON job.id = task.job
WHERE task.state < 7 ORDER BY task.job, task.first

-- job: one job with all its runs
SELECT job.*, task.* FROM job JOIN task ON task.job = job.id WHERE job.id = ? ORDER BY task.first

-- environment: the content of one environment
SELECT content FROM environment WHERE digest = ?

-- newest_job: an owner's newest job
SELECT id FROM job WHERE owner_uid = ? ORDER BY id DESC LIMIT 1

-- sessions: an owner's job sessions
SELECT owner_uid, name, contact, created FROM session WHERE owner_uid = ? ORDER BY name

-- request: what a request id gave
SELECT owner_uid, request_id, digest, first, last, created FROM request WHERE owner_uid = ? AND request_id = ?

-- events: events after a number
SELECT seq, job, first, last, before, after, sub_state, at FROM event WHERE seq > ? ORDER BY seq LIMIT ?

-- events_of_job: one job's events after a number
SELECT seq, job, first, last, before, after, sub_state, at FROM event
WHERE job = ? AND seq > ? ORDER BY seq LIMIT ?

-- first_event: the floor of the event log: from here on it is whole
SELECT value FROM counter WHERE name = 'first_event'

-- finished: finished runs, newest first; a criterion that is NULL restricts nothing
SELECT job.*, task.* FROM task JOIN job ON job.id = task.job
WHERE task.state >= 7
    AND job.id >= :first AND job.id <= :last
    AND (:owner_uid IS NULL OR job.owner_uid = :owner_uid)
    AND (:session IS NULL OR job.session = :session)
    AND (:backend IS NULL OR job.backend = :backend)
    AND (:queue IS NULL OR job.queue = :queue)
    AND (:since IS NULL OR job.submission_time >= :since)
    AND (:states IS NULL OR task.state IN (SELECT value FROM json_each(:states)))
    AND (:labels IS NULL OR job.labels IS NOT NULL AND NOT EXISTS (
        SELECT 1 FROM json_each(:labels) AS wanted WHERE NOT EXISTS (
            SELECT 1 FROM json_each(job.labels) AS own WHERE own.key = wanted.key AND own.value = wanted.value)))
ORDER BY job.id DESC, task.first LIMIT :limit
