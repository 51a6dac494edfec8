"""The survey of the thesis, section 2.9: what kernel regression with the tangent kernel of a real network costs."""
