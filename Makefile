# Every target that needs .venv sets it up the first time, and again when what it is made from changes.
#   make train ARGS="task=lift num_envs=32"    make test    make test-all    make lint    make format    make docs    make bench    make gpu    make clean

PYTHON3 ?= python3.12
# Of setup.py. ovphysx comes under NVIDIA's Omniverse terms: EXTRAS=rl_games,test leaves it out.
EXTRAS ?= ovphysx,rl_games,skrl,sb3,cluster,viz,export,wandb,docs,test
VENV := .venv
PYTHON := $(VENV)/bin/python
UV := $(VENV)/bin/uv
INSTALLED := $(VENV)/.installed
IS_3_12 := -c 'import sys; sys.exit(sys.version_info[:2] != (3, 12))'
# Two processes, each with one physics backend: tests/conftest.py says which runs what. A backend of which no test passed
# fails.
PYTEST := $(PYTHON) -m pytest -rs
BOTH_BACKENDS := -n 2 --dist loadgroup --no-loadscope-reorder --fail-if-none-passed

# A start imports thousands of modules: without their bytecode on disk it takes twice as long.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: train test test-all lint format docs bench gpu clean
.DELETE_ON_ERROR:

train: $(INSTALLED)
	$(PYTHON) scripts/train.py $(ARGS)

# Two processes that each use all cores wait for each other.
test test-all: export OMP_NUM_THREADS := 1

test: $(INSTALLED)
	$(PYTEST) $(BOTH_BACKENDS) -m "not gpu and not slow"

# The tests that need a CUDA device are skipped, with the reason, where there is none.
test-all: $(INSTALLED)
	@failed=0; \
	$(PYTEST) $(BOTH_BACKENDS) -m "not gpu" || failed=1; \
	for backend in "not physx" "physx"; do \
		$(PYTEST) -m "gpu and $$backend"; code=$$?; \
		[ $$code -eq 0 ] || [ $$code -eq 5 ] || failed=1; \
	done; \
	exit $$failed

lint: $(INSTALLED)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/pyright

format: $(INSTALLED)
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

# The pages as a site: site/docs/index.html.
docs: $(INSTALLED)
	$(PYTHON) -m sphinx -W --keep-going -b html -c docs . site

bench: $(INSTALLED)
	$(PYTHON) benchmarks/step_time.py $(ARGS)

# All that only a GPU can show, in about ten minutes.
gpu: $(INSTALLED)
	$(PYTHON) benchmarks/gpu.py $(ARGS)

clean:
	rm -rf build dist site *.egg-info .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -not -path "./$(VENV)/*" -prune -exec rm -rf {} +

$(INSTALLED): setup.py extension.toml constraints.txt | $(UV)
	$(UV) pip install --python $(PYTHON) -c constraints.txt -e '.[$(EXTRAS)]'
	@touch $@

# A .venv that was not made here may have no pip; one where pip was interrupted claims to have uv.
$(UV): | $(PYTHON)
	@$(PYTHON) $(IS_3_12) || { echo "isaaclab_pc needs Python 3.12, and $(PYTHON) is not it: remove $(VENV)." >&2; exit 1; }
	@$(PYTHON) -m pip --version >/dev/null 2>&1 || $(PYTHON) -m ensurepip >/dev/null
	$(PYTHON) -m pip install --quiet --disable-pip-version-check --ignore-installed --no-deps -c constraints.txt uv

$(PYTHON):
	@$(PYTHON3) $(IS_3_12) 2>/dev/null || \
		{ echo "isaaclab_pc needs Python 3.12, and '$(PYTHON3)' is not it." \
		       "Install python3.12, or name it: make PYTHON3=/path/to/python3.12" >&2; exit 1; }
	@$(PYTHON3) -m venv $(VENV) || \
		{ rm -rf $(VENV); echo "Python's venv module is incomplete: on Debian and Ubuntu, apt install python3.12-venv." >&2; exit 1; }
