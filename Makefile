# make demo   the main job on the simulated fleet
# make test   everything that tests this repository
# make help   the rest

VENV ?= .venv
BIN := $(VENV)/bin
export PATH := $(CURDIR)/$(BIN):$(PATH)
LIMIT ?= dgx
SCENARIOS ?=
CONTROL_PLANE ?= whole

.PHONY: help demo test lint sanity unit test-cluster campaign molecule lab fresh down clean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

demo: lab ## run site.yml on the simulated fleet
	ansible-playbook -i inventories/lab site.yml -l $(LIMIT)
	@echo
	@echo "Again, and nothing is left to do:   $(BIN)/ansible-playbook site.yml -l $(LIMIT)"
	@echo "Switch a strategy:                  $(BIN)/ansible-playbook site.yml -l dgx -e dgx_strategy=single"
	@echo "Look at a node, begin anew, stop:   $(BIN)/mig-lab fleet show dgx01; make fresh demo; make down"

lab: $(VENV)/.ready ## start the simulated fleet and its Kubernetes API
	mig-lab up

fresh: $(VENV)/.ready ## the lab's nodes as they came from the factory
	mig-lab fleet create --reset

down: ## stop the lab
	mig-lab down

test: lint sanity unit ## every check and every test that needs no container

lint: $(VENV)/.ready-test ## static checks
	ruff check
	ruff format --check
	yamllint .
	ansible-lint
	GIT_CEILING_DIRECTORIES=$(CURDIR)/$(VENV) antsibull-docs lint-collection-docs --plugin-docs collections/nvidia/mig
	cd collections/nvidia/mig && antsibull-changelog lint
	python tools/role_readmes.py --check
	python tools/gpu_models.py --check
	python tools/vars_schema.py --check
	tools/typecheck.sh

sanity: $(VENV)/.ready-test ## ansible-test's sanity tests
	python tools/sanity.py

unit: $(VENV)/.ready-test ## tests, on the simulated NVML and a real Kubernetes API
	@echo "==> The programs of the lab's Kubernetes API (built once, which takes some minutes)"
	-mig-lab cluster binaries
	pytest --numprocesses auto --maxprocesses 4 --dist loadfile

test-cluster: $(VENV)/.ready-test ## the main job beside Kubernetes' own controllers and scheduler
	mig-lab cluster binaries --control-plane $(CONTROL_PLANE)
	MIG_LAB_CONTROL_PLANE=$(CONTROL_PLANE) pytest tests/cluster

campaign: $(VENV)/.ready-test ## the long form of the fault campaign, about an hour
	python tests/campaign

molecule: $(VENV)/.ready-test ## the roles in containers; left out where podman starts none
	tools/molecule-test.sh $(SCENARIOS)

clean: ## forget the lab and the environments
	-mig-lab down
	rm -rf .lab $(VENV) build

.PHONY: $(VENV)/.ready $(VENV)/.ready-test
$(VENV)/.ready:
	@tools/venv.sh $(VENV)

$(VENV)/.ready-test:
	@tools/venv.sh $(VENV) test
