# TAB completes settings behind `python scripts/<name>.py`, with .venv active:
#   source scripts/completion.bash

_isaaclab_pc() {
    COMPREPLY=()
    [[ ${COMP_WORDS[1]} == *scripts/*.py ]] || return

    # Bash takes the line apart at "=", and replaces only what stands behind it.
    local line=${COMP_LINE:0:COMP_POINT}
    local word=${line##* }
    local behind=""
    [[ $word == *=* ]] && behind="${word%%=*}="

    local choice
    while read -r choice; do
        [[ -n $choice ]] && COMPREPLY+=("${choice#"$behind"}")
    done < <("${COMP_WORDS[0]}" -m isaaclab_pc.launch.completion "$word" 2>/dev/null)
    [[ ${COMPREPLY[0]} == *[=.] ]] && compopt -o nospace
}

complete -o default -F _isaaclab_pc python python3
