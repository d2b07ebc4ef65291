# shellcheck shell=bash
# Sourced by the commands of this project: installs what packages.txt names.

# packages_of KIND...: the packages marked with one of the kinds.
packages_of() {
    local name kind rest
    while read -r name kind rest; do
        case " $* " in
        *" ${kind:-none} "*) echo "$name" ;;
        esac
    done < <(grep -v '^#' packages.txt)
}

# packages_need KIND...: installs those that are missing. Without root it prints
# the line to run, and ends with 2. Called at the top of the checkout.
packages_need() {
    local missing=() name status
    if ! command -v dpkg-query >/dev/null; then
        echo "This is not Debian: packages.txt names what is needed here." >&2
        return
    fi
    for name in $(packages_of "$@"); do
        status=$(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null) ||
            status=none
        [ "$status" = installed ] || missing+=("$name")
    done
    [ ${#missing[@]} -gt 0 ] || return 0

    if [ "$(id -u)" -ne 0 ]; then
        {
            echo "Some packages are missing. Run this, then try again:"
            echo
            echo "    sudo sh -c 'apt-get update && apt-get install -y" \
                "--no-install-recommends ${missing[*]}'"
            echo
        } >&2
        exit 2
    fi
    echo "Installing ${missing[*]}"
    apt-get -q update
    DEBIAN_FRONTEND=noninteractive apt-get -q install -y \
        -o DPkg::Lock::Timeout=120 --no-install-recommends "${missing[@]}"
}
