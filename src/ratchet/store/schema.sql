CREATE TABLE ratchet_version (
	version_num VARCHAR(32) NOT NULL,
	CONSTRAINT ratchet_version_pkc PRIMARY KEY (version_num)
);

CREATE TABLE resources (
	version TEXT NOT NULL,
	kind TEXT NOT NULL,
	body TEXT NOT NULL,
	created_at FLOAT NOT NULL,
	PRIMARY KEY (version)
);

CREATE TABLE resource_names (
	seq INTEGER NOT NULL,
	name TEXT NOT NULL,
	version TEXT NOT NULL,
	created_at FLOAT NOT NULL,
	PRIMARY KEY (seq),
	CONSTRAINT uq_resource_names UNIQUE (name, version)
);

CREATE TABLE candidates (
	seq INTEGER NOT NULL,
	id TEXT NOT NULL,
	algorithm TEXT NOT NULL,
	reason TEXT NOT NULL,
	parents TEXT NOT NULL,
	versions TEXT NOT NULL,
	created_at FLOAT NOT NULL,
	put_at FLOAT NOT NULL,
	PRIMARY KEY (seq),
	UNIQUE (id)
);

CREATE TABLE tasks (
	content TEXT NOT NULL,
	input TEXT NOT NULL,
	expected TEXT NOT NULL,
	metadata TEXT NOT NULL,
	PRIMARY KEY (content)
);

CREATE TABLE datasets (
	seq INTEGER NOT NULL,
	name TEXT NOT NULL,
	version TEXT NOT NULL,
	provenance TEXT NOT NULL,
	parent TEXT NOT NULL,
	reason TEXT NOT NULL,
	created_at FLOAT NOT NULL,
	put_at FLOAT NOT NULL,
	PRIMARY KEY (seq),
	CONSTRAINT uq_datasets UNIQUE (version, name)
);

CREATE TABLE dataset_tasks (
	version TEXT NOT NULL,
	position INTEGER NOT NULL,
	task_id TEXT NOT NULL,
	content TEXT NOT NULL,
	split TEXT NOT NULL,
	origin TEXT NOT NULL,
	CONSTRAINT pk_dataset_tasks PRIMARY KEY (version, position)
)
 WITHOUT ROWID;

CREATE INDEX ix_dataset_tasks_content ON dataset_tasks (content);

CREATE TABLE rollouts (
	seq INTEGER NOT NULL,
	id TEXT NOT NULL,
	queue TEXT NOT NULL,
	status TEXT NOT NULL,
	fence INTEGER NOT NULL,
	failures INTEGER NOT NULL,
	max_attempts INTEGER NOT NULL,
	purpose TEXT NOT NULL,
	candidate_id TEXT NOT NULL,
	task_id TEXT NOT NULL,
	seed BIGINT NOT NULL,
	created_at FLOAT NOT NULL,
	started_at FLOAT,
	ended_at FLOAT,
	duration_s FLOAT,
	known_usd FLOAT NOT NULL,
	reported_usd FLOAT,
	unpriced TEXT NOT NULL,
	error TEXT NOT NULL,
	metadata TEXT NOT NULL,
	expected TEXT NOT NULL,
	output TEXT NOT NULL,
	input TEXT NOT NULL,
	PRIMARY KEY (seq),
	UNIQUE (id)
);

CREATE INDEX ix_rollouts_status ON rollouts (status, seq);

CREATE INDEX ix_rollouts_queue ON rollouts (queue, seq);

CREATE INDEX ix_rollouts_purpose ON rollouts (purpose, seq);

CREATE INDEX ix_rollouts_candidate ON rollouts (candidate_id, seq);

CREATE INDEX ix_rollouts_queued ON rollouts (queue, seq) WHERE status = 'queued';

CREATE TABLE attempts (
	rollout_seq BIGINT NOT NULL,
	fence INTEGER NOT NULL,
	status TEXT NOT NULL,
	worker TEXT NOT NULL,
	lease_until FLOAT NOT NULL,
	started_at FLOAT NOT NULL,
	ended_at FLOAT,
	error TEXT NOT NULL,
	CONSTRAINT pk_attempts PRIMARY KEY (rollout_seq, fence)
)
 WITHOUT ROWID;

CREATE INDEX ix_attempts_running ON attempts (lease_until) WHERE status = 'running';

CREATE TABLE scores (
	seq INTEGER NOT NULL,
	rollout_seq BIGINT NOT NULL,
	evaluator TEXT NOT NULL,
	version TEXT NOT NULL,
	value FLOAT,
	unit TEXT NOT NULL,
	rationale TEXT NOT NULL,
	error TEXT NOT NULL,
	created_at FLOAT NOT NULL,
	PRIMARY KEY (seq),
	CONSTRAINT uq_scores UNIQUE (rollout_seq, evaluator, version)
);

CREATE TABLE transitions (
	seq INTEGER NOT NULL,
	rollout_seq BIGINT NOT NULL,
	fence INTEGER NOT NULL,
	id TEXT NOT NULL,
	drop_reason TEXT NOT NULL,
	started_ns BIGINT NOT NULL,
	ended_ns BIGINT NOT NULL,
	size INTEGER NOT NULL,
	digest BLOB NOT NULL,
	written INTEGER NOT NULL,
	base TEXT NOT NULL,
	details TEXT NOT NULL,
	prompt BLOB NOT NULL,
	response BLOB NOT NULL,
	logprobs BLOB NOT NULL,
	PRIMARY KEY (seq),
	CONSTRAINT uq_transitions UNIQUE (rollout_seq, fence, id)
);

CREATE TABLE spans (
	seq INTEGER NOT NULL,
	rollout_seq BIGINT NOT NULL,
	fence INTEGER NOT NULL,
	agent TEXT DEFAULT '' NOT NULL,
	trace_id TEXT NOT NULL,
	span_id TEXT NOT NULL,
	parent_id TEXT,
	name TEXT NOT NULL,
	start_ns BIGINT NOT NULL,
	end_ns BIGINT NOT NULL,
	status TEXT NOT NULL,
	message TEXT NOT NULL,
	conversation_id TEXT DEFAULT '' NOT NULL,
	usage TEXT DEFAULT '' NOT NULL,
	head INTEGER DEFAULT '0' NOT NULL,
	attributes TEXT NOT NULL,
	events TEXT NOT NULL,
	texts TEXT DEFAULT '' NOT NULL,
	PRIMARY KEY (seq),
	CONSTRAINT uq_spans UNIQUE (rollout_seq, fence, trace_id, span_id)
);

CREATE INDEX ix_spans_agent ON spans (agent, seq, end_ns) WHERE agent > '';

CREATE INDEX ix_spans_trace ON spans (trace_id) WHERE rollout_seq > 0;

CREATE INDEX ix_spans_heads ON spans (head, start_ns, seq, trace_id, agent, conversation_id) WHERE head > 0;

CREATE INDEX ix_spans_first ON spans (trace_id, rollout_seq, fence, start_ns, seq, conversation_id) WHERE head > 0;

CREATE INDEX ix_spans_conversation ON spans (conversation_id, start_ns, seq, head, trace_id) WHERE head > 0 AND conversation_id > '';

CREATE TABLE texts (
	seq INTEGER NOT NULL,
	hash BLOB NOT NULL,
	body BLOB NOT NULL,
	PRIMARY KEY (seq),
	UNIQUE (hash)
);

CREATE TABLE text_traces (
	seq INTEGER NOT NULL,
	rollout_seq BIGINT NOT NULL,
	fence INTEGER NOT NULL,
	trace_id TEXT NOT NULL,
	end_ns BIGINT NOT NULL,
	PRIMARY KEY (seq),
	CONSTRAINT uq_text_traces UNIQUE (rollout_seq, fence, trace_id)
);

CREATE TABLE text_uses (
	trace_seq BIGINT NOT NULL,
	text_seq BIGINT NOT NULL,
	CONSTRAINT pk_text_uses PRIMARY KEY (trace_seq, text_seq)
)
 WITHOUT ROWID;

CREATE INDEX ix_text_uses_text ON text_uses (text_seq);

CREATE TABLE trace_rows (
	place INTEGER NOT NULL,
	trace_id TEXT NOT NULL,
	agent TEXT NOT NULL,
	user_id TEXT NOT NULL,
	conversation_id TEXT NOT NULL,
	models TEXT NOT NULL,
	duration_s FLOAT NOT NULL,
	errors INTEGER NOT NULL,
	known_usd FLOAT NOT NULL,
	unpriced INTEGER NOT NULL,
	feedback INTEGER NOT NULL,
	worst FLOAT,
	name TEXT NOT NULL,
	error TEXT NOT NULL,
	input TEXT NOT NULL,
	output TEXT NOT NULL,
	PRIMARY KEY (place),
	UNIQUE (trace_id)
);

CREATE TABLE trace_sums (
	hour BIGINT NOT NULL,
	agent TEXT NOT NULL,
	traces BIGINT NOT NULL,
	errors BIGINT NOT NULL,
	unpriced BIGINT NOT NULL,
	rated BIGINT NOT NULL,
	known_usd FLOAT NOT NULL,
	worst FLOAT NOT NULL,
	CONSTRAINT pk_trace_sums PRIMARY KEY (hour, agent)
)
 WITHOUT ROWID;

CREATE TABLE stale_traces (
	seq INTEGER NOT NULL,
	trace_id TEXT NOT NULL,
	since FLOAT NOT NULL,
	PRIMARY KEY (seq)
);

CREATE VIRTUAL TABLE trace_words USING fts5(words, tokenize = 'ascii');

CREATE TABLE runs (
	seq INTEGER NOT NULL,
	id TEXT NOT NULL,
	agent TEXT NOT NULL,
	stage TEXT NOT NULL,
	updated_at FLOAT NOT NULL,
	body TEXT NOT NULL,
	PRIMARY KEY (seq),
	UNIQUE (id)
);

CREATE TABLE journal (
	seq INTEGER NOT NULL,
	run_id TEXT NOT NULL,
	"key" TEXT NOT NULL,
	body TEXT NOT NULL,
	created_at FLOAT NOT NULL,
	PRIMARY KEY (seq),
	CONSTRAINT uq_journal UNIQUE (run_id, "key")
);

CREATE TABLE experiments (
	seq INTEGER NOT NULL,
	id TEXT NOT NULL,
	run_id TEXT NOT NULL,
	dataset_version TEXT NOT NULL,
	stream TEXT NOT NULL,
	place INTEGER NOT NULL,
	verdict TEXT NOT NULL,
	body TEXT NOT NULL,
	PRIMARY KEY (seq),
	CONSTRAINT uq_experiments UNIQUE (stream, place),
	UNIQUE (id)
);

CREATE TABLE releases (
	seq INTEGER NOT NULL,
	id TEXT NOT NULL,
	candidate_id TEXT NOT NULL,
	state TEXT NOT NULL,
	body TEXT NOT NULL,
	PRIMARY KEY (seq),
	UNIQUE (id)
);

CREATE TABLE cycles (
	seq INTEGER NOT NULL,
	id TEXT NOT NULL,
	agent TEXT NOT NULL,
	state TEXT NOT NULL,
	version INTEGER NOT NULL,
	body TEXT NOT NULL,
	PRIMARY KEY (seq),
	UNIQUE (id)
);

CREATE INDEX ix_cycles_agent ON cycles (agent, seq);

CREATE TABLE cycle_transitions (
	seq INTEGER NOT NULL,
	cycle_id TEXT NOT NULL,
	number INTEGER NOT NULL,
	body TEXT NOT NULL,
	PRIMARY KEY (seq),
	CONSTRAINT uq_cycle_transitions UNIQUE (cycle_id, number)
);

CREATE TABLE cycle_actions (
	seq INTEGER NOT NULL,
	"key" TEXT NOT NULL,
	cycle_id TEXT NOT NULL,
	state TEXT NOT NULL,
	next_at FLOAT NOT NULL,
	body TEXT NOT NULL,
	PRIMARY KEY (seq),
	UNIQUE ("key")
);

CREATE INDEX ix_cycle_actions_due ON cycle_actions (state, next_at);

CREATE INDEX ix_cycle_actions_cycle ON cycle_actions (cycle_id, seq);

CREATE TABLE cycle_spending (
	seq INTEGER NOT NULL,
	agent TEXT NOT NULL,
	day TEXT NOT NULL,
	purpose TEXT NOT NULL,
	rollouts INTEGER NOT NULL,
	dollars FLOAT NOT NULL,
	requests INTEGER NOT NULL,
	PRIMARY KEY (seq),
	CONSTRAINT uq_cycle_spending UNIQUE (agent, day, purpose)
);

CREATE TABLE operator_commands (
	seq INTEGER NOT NULL,
	agent TEXT NOT NULL,
	verb TEXT NOT NULL,
	cycle_id TEXT NOT NULL,
	body TEXT NOT NULL,
	PRIMARY KEY (seq)
);

CREATE INDEX ix_operator_commands_agent ON operator_commands (agent, seq);

CREATE TABLE leases (
	name TEXT NOT NULL,
	holder TEXT NOT NULL,
	fence BIGINT NOT NULL,
	expires_at FLOAT NOT NULL,
	PRIMARY KEY (name)
);

CREATE TABLE activity (
	run_id TEXT NOT NULL,
	at FLOAT NOT NULL,
	waits TEXT NOT NULL,
	PRIMARY KEY (run_id)
);

CREATE TABLE agents (
	name TEXT NOT NULL,
	body TEXT NOT NULL,
	updated_at FLOAT NOT NULL,
	PRIMARY KEY (name)
);

CREATE TABLE activations (
	seq INTEGER NOT NULL,
	agent TEXT NOT NULL,
	candidate_id TEXT NOT NULL,
	reason TEXT NOT NULL,
	activated_at FLOAT NOT NULL,
	PRIMARY KEY (seq)
);

CREATE INDEX ix_activations_agent ON activations (agent, seq);

CREATE TABLE traffic_splits (
	seq INTEGER NOT NULL,
	agent TEXT NOT NULL,
	experiment_id TEXT NOT NULL,
	candidate_id TEXT NOT NULL,
	reason TEXT NOT NULL,
	enrolled FLOAT NOT NULL,
	started_at FLOAT NOT NULL,
	PRIMARY KEY (seq)
);

CREATE INDEX ix_traffic_splits_agent ON traffic_splits (agent, seq);

CREATE TABLE traffic_units (
	experiment_id TEXT NOT NULL,
	unit TEXT NOT NULL,
	trace_id TEXT NOT NULL,
	PRIMARY KEY (experiment_id, unit)
);

CREATE TABLE feedback (
	seq INTEGER NOT NULL,
	id TEXT NOT NULL,
	rollout_id TEXT NOT NULL,
	trace_id TEXT NOT NULL,
	span_id TEXT NOT NULL,
	conversation_id TEXT NOT NULL,
	kind TEXT NOT NULL,
	value FLOAT,
	body TEXT NOT NULL,
	created_at FLOAT NOT NULL,
	PRIMARY KEY (seq),
	UNIQUE (id)
);

CREATE INDEX ix_feedback_rollout ON feedback (rollout_id, seq);

CREATE INDEX ix_feedback_trace ON feedback (trace_id, seq);

CREATE INDEX ix_feedback_conversation ON feedback (conversation_id, seq);

CREATE TABLE labels (
	seq INTEGER NOT NULL,
	id TEXT NOT NULL,
	rollout_id TEXT NOT NULL,
	trace_id TEXT NOT NULL,
	criterion TEXT NOT NULL,
	body TEXT NOT NULL,
	created_at FLOAT NOT NULL,
	PRIMARY KEY (seq),
	UNIQUE (id)
);

CREATE INDEX ix_labels_rollout ON labels (rollout_id, seq);

CREATE INDEX ix_labels_trace ON labels (trace_id, seq);

CREATE TABLE report_cards (
	seq INTEGER NOT NULL,
	id TEXT NOT NULL,
	evaluator TEXT NOT NULL,
	version TEXT NOT NULL,
	body TEXT NOT NULL,
	created_at FLOAT NOT NULL,
	PRIMARY KEY (seq),
	UNIQUE (id)
);

CREATE INDEX ix_report_cards_evaluator ON report_cards (evaluator, version, created_at);

CREATE TABLE events (
	seq INTEGER NOT NULL,
	kind TEXT NOT NULL,
	at FLOAT NOT NULL,
	body TEXT NOT NULL,
	PRIMARY KEY (seq)
);

CREATE TABLE problems (
	seq INTEGER NOT NULL,
	id TEXT NOT NULL,
	agent TEXT NOT NULL,
	state TEXT NOT NULL,
	version INTEGER NOT NULL,
	profile TEXT NOT NULL,
	body TEXT NOT NULL,
	PRIMARY KEY (seq),
	UNIQUE (id)
);

CREATE INDEX ix_problems_agent ON problems (agent, seq);

CREATE TABLE occurrences (
	seq INTEGER NOT NULL,
	id TEXT NOT NULL,
	agent TEXT NOT NULL,
	problem_id TEXT NOT NULL,
	trace_id TEXT NOT NULL,
	at FLOAT NOT NULL,
	loss FLOAT NOT NULL,
	cost_usd FLOAT,
	reading TEXT,
	body TEXT NOT NULL,
	PRIMARY KEY (seq),
	UNIQUE (id)
);

CREATE INDEX ix_occurrences_problem ON occurrences (problem_id, at);

CREATE INDEX ix_occurrences_agent ON occurrences (agent, at);

CREATE INDEX ix_occurrences_trace ON occurrences (trace_id);

CREATE TABLE problem_transitions (
	seq INTEGER NOT NULL,
	problem_id TEXT NOT NULL,
	body TEXT NOT NULL,
	PRIMARY KEY (seq)
);

CREATE INDEX ix_problem_transitions_problem ON problem_transitions (problem_id, seq);

CREATE TABLE problem_scans (
	agent TEXT NOT NULL,
	body TEXT NOT NULL,
	PRIMARY KEY (agent)
);

CREATE TABLE frozen_sets (
	seq INTEGER NOT NULL,
	id TEXT NOT NULL,
	project TEXT NOT NULL,
	problem_id TEXT NOT NULL,
	version INTEGER NOT NULL,
	body TEXT NOT NULL,
	PRIMARY KEY (seq),
	UNIQUE (id)
);

CREATE INDEX ix_frozen_sets_project ON frozen_sets (project, seq);

CREATE TABLE keys (
	seq INTEGER NOT NULL,
	id TEXT NOT NULL,
	hash TEXT NOT NULL,
	name TEXT NOT NULL,
	scopes TEXT NOT NULL,
	agent TEXT NOT NULL,
	created_at FLOAT NOT NULL,
	expires_at FLOAT,
	revoked_at FLOAT,
	last_used_at FLOAT,
	PRIMARY KEY (seq),
	UNIQUE (id),
	UNIQUE (hash)
);

CREATE TABLE audit (
	seq INTEGER NOT NULL,
	at FLOAT NOT NULL,
	key_id TEXT NOT NULL,
	address TEXT NOT NULL,
	action TEXT NOT NULL,
	target TEXT NOT NULL,
	status INTEGER NOT NULL,
	PRIMARY KEY (seq)
);

CREATE TABLE settings (
	name TEXT NOT NULL,
	value TEXT NOT NULL,
	PRIMARY KEY (name)
);

INSERT INTO ratchet_version (version_num) VALUES ('1.0');
