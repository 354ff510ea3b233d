BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0001');
CREATE TABLE detail (
	run_uid VARCHAR(16) NOT NULL, 
	result JSON NOT NULL, 
	PRIMARY KEY (run_uid), 
	FOREIGN KEY(run_uid) REFERENCES run (uid)
);
INSERT INTO "detail" VALUES('a12cb3ade2a1bb2b','{"key": "4.1/closed/maker/box_1/bert-99/offline", "workload": {"benchmark": "bert-99", "scenario": "Offline", "model": "bert-99", "round": "4.1", "division": "closed", "category": "datacenter"}, "system": {"name": "Box One (1x Fast-80GB)", "cpu": "Some CPU", "sockets": 2, "cores": 32, "accelerator": "Fast-80GB", "accelerators": 1, "nodes": 1, "os": "Linux"}, "software": {"framework": "Runtime 1.2"}, "metric": "throughput", "value": 1000.0, "unit": "samples/s", "direction": "higher", "organization": "Maker", "validity": "VALID", "accuracy": 90.5, "metrics": [{"name": "throughput", "value": 1000.0, "unit": "samples/s", "direction": "higher"}], "availability": "available", "tier": "official", "figures_from": "a published summary", "link": "https://github.com/mlcommons/inference_results_v4.1/tree/main/closed/Maker"}');
INSERT INTO "detail" VALUES('7eccb51547c7cd49','{"key": "5.1/open/maker/box_2/resnet50/singlestream", "workload": {"benchmark": "resnet50", "scenario": "SingleStream", "model": "resnet50", "round": "5.1", "division": "open", "category": "edge"}, "system": {"name": "Box Two", "cpu": "Some CPU", "sockets": 1, "cores": 16, "nodes": 1}, "software": {"framework": "Runtime 2.0"}, "metric": "p90 latency", "value": 0.5, "unit": "ms", "direction": "lower", "organization": "Maker", "validity": "VALID", "accuracy": 76.1, "metrics": [{"name": "latency_p90", "value": 0.5, "unit": "ms", "direction": "lower"}], "tier": "official", "figures_from": "a published summary", "link": "https://github.com/mlcommons/inference_results_v5.1/tree/main/open/Maker"}');
CREATE TABLE place (
	id VARCHAR(16) NOT NULL, 
	kind TEXT NOT NULL, 
	path TEXT NOT NULL, 
	added TEXT NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "place" VALUES('650c6462ee1bae7b','experiments','/data/a','2026-11-22T19:23:15Z');
CREATE TABLE run (
	uid VARCHAR(16) NOT NULL, 
	"key" TEXT NOT NULL, 
	place_id VARCHAR(16) NOT NULL, 
	series VARCHAR(16) NOT NULL, 
	benchmark TEXT NOT NULL, 
	model TEXT NOT NULL, 
	form TEXT NOT NULL, 
	scenario TEXT NOT NULL, 
	round TEXT NOT NULL, 
	division TEXT NOT NULL, 
	category TEXT NOT NULL, 
	organization TEXT NOT NULL, 
	system TEXT NOT NULL, 
	system_id VARCHAR(16) NOT NULL, 
	cpu TEXT NOT NULL, 
	accelerator TEXT NOT NULL, 
	accelerators INTEGER NOT NULL, 
	nodes INTEGER NOT NULL, 
	framework TEXT NOT NULL, 
	backend TEXT NOT NULL, 
	device TEXT NOT NULL, 
	precision TEXT NOT NULL, 
	tier TEXT NOT NULL, 
	validity TEXT NOT NULL, 
	availability TEXT NOT NULL, 
	inferred BOOLEAN NOT NULL, 
	metric TEXT NOT NULL, 
	value FLOAT, 
	unit TEXT NOT NULL, 
	direction TEXT NOT NULL, 
	throughput FLOAT, 
	latency_p90 FLOAT, 
	latency_p99 FLOAT, 
	accuracy FLOAT, 
	power FLOAT, 
	energy_per_sample FLOAT, 
	energy_tier TEXT NOT NULL, 
	measured_at TEXT NOT NULL, 
	figures_from TEXT NOT NULL, 
	PRIMARY KEY (uid), 
	FOREIGN KEY(place_id) REFERENCES place (id)
);
INSERT INTO "run" VALUES('a12cb3ade2a1bb2b','4.1/closed/maker/box_1/bert-99/offline','650c6462ee1bae7b','db2a579352f636c5','bert-99','bert-99','','Offline','4.1','closed','datacenter','Maker','Box One (1x Fast-80GB)','d390eec0f491b7ad','Some CPU','Fast-80GB',1,1,'Runtime 1.2','','','','official','VALID','available',0,'throughput',1000.0,'samples/s','higher',1000.0,NULL,NULL,90.5,NULL,NULL,'','','a published summary');
INSERT INTO "run" VALUES('7eccb51547c7cd49','5.1/open/maker/box_2/resnet50/singlestream','650c6462ee1bae7b','690b38cef4452057','resnet50','resnet50','','SingleStream','5.1','open','edge','Maker','Box Two','d867a08fe54e5bde','Some CPU','',0,1,'Runtime 2.0','','','','official','VALID','',0,'p90 latency',0.5,'ms','lower',NULL,0.5,NULL,76.1,NULL,NULL,'','','a published summary');
CREATE INDEX ix_run_organization ON run (organization);
CREATE INDEX ix_run_place_id ON run (place_id);
CREATE INDEX ix_run_round ON run (round);
CREATE INDEX ix_run_series ON run (series);
CREATE INDEX ix_run_system ON run (system);
CREATE INDEX ix_run_system_id ON run (system_id);
CREATE INDEX run_by_work ON run (lower(benchmark), lower(scenario), value);
COMMIT;
