# TAB completes settings behind `python scripts/<name>.py` and `isaaclab-pc <name>`, with .venv active:
#   source scripts/completion.bash

_isaaclab_pc() {
    COMPREPLY=()
    local python=${COMP_WORDS[0]}
    local script=${COMP_WORDS[1]}
    if [[ $python == *isaaclab-pc ]]; then
        # The program stands beside its Python.
        python=$(dirname "$(command -v "$python")")/python
    elif [[ $script == *scripts/*.py ]]; then
        script=$(basename "$script" .py)
    else
        return
    fi

    # Bash takes the line apart at "=", and replaces only what stands behind it.
    local line=${COMP_LINE:0:COMP_POINT}
    local word=${line##* }
    local behind=""
    [[ $word == *=* ]] && behind="${word%%=*}="

    local choice
    while read -r choice; do
        [[ -n $choice ]] && COMPREPLY+=("${choice#"$behind"}")
    done < <("$python" -m isaaclab_pc.commands.completion "$script" "$word" 2>/dev/null)
    [[ ${COMPREPLY[0]} == *[=.] ]] && compopt -o nospace
}

complete -o default -F _isaaclab_pc python python3 isaaclab-pc
